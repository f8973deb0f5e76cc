"""A repository's territory, as git has it: what each commit changed, whose lease covered it, and what did not."""
