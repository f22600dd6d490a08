"""The frontier on Redis or Valkey: lists of visits by host, and scripts that the server runs whole."""
