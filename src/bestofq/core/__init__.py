"""Floor 0: the nouns, the verbs (protocols) and the errors. Only stdlib, numpy and pydantic."""
