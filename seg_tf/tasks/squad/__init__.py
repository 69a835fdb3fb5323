"""SQuAD: its files, contexts as windows, answers and their scores."""
