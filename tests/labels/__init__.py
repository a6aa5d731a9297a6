"""Files of public repositories, labelled by reading; precision and recall over them."""
