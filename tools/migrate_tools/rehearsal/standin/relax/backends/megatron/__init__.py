"""Part of the stand-in Relax tree of migrate-agent; not Relax itself."""
