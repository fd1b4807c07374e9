"""Results for people: tables in the terminal, drawings, contact sheets."""
