"""Attribution: finding the link that led to an app open."""
