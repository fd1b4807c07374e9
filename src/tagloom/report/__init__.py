"""What people look at: tables on the terminal, contact sheets, model cards."""
