"""The client for browsers, served as `/t.js`."""
