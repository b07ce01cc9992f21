"""The browser client, served as `/t.js`."""
