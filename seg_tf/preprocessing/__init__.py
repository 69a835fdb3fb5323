"""From strings to rows: a text front end, then a layout."""
