"""The pytest module that users run on their own implementation."""
