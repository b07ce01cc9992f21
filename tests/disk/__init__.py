"""Tests of the disk room."""
