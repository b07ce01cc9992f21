"""Files that contain the data of a workspace, for moving out and for data tools."""
