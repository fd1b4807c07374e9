"""The scripts in this folder run in processes of their own; they are no tests."""

collect_ignore = ["damaged_pictures.py", "damaged_tables.py", "mutations.py"]
