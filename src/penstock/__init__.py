"""Penstock: conversion funnels, managed mobile links and server events, self-hosted."""

__version__ = "0.3.0"
