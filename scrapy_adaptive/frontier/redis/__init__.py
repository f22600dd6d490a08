"""The frontier on Redis or Valkey: lists of visits by host, and scripts run by the server."""
