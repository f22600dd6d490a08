"""What an object has learned, as JSON, and back at another clock: fields, writing, reading."""
