"""What seems irreversible: an action is judged by what its page says, before it is carried out."""
