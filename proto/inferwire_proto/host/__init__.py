"""What programs of both sides do alike with the machine that they run on. Nothing of it is said on the wire."""
