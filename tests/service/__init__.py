"""Tests of the deployed system."""
