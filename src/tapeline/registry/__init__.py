"""After the pipeline: versions, promotion, rollback and lineage, all of it Git tags and files.

What is live is what the tags say; the serving folder is made from them.
"""
