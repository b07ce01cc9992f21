"""Attribution: which link an app's open came from."""
