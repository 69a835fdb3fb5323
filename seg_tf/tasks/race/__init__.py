"""RACE: reading comprehension by multiple choice."""
