"""After the pipeline: versions, promotion, rollback and lineage, all as Git tags and files.

The tags define what is live; the serving folder is derived from them.
"""
