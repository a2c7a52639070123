"""One small file a fault: a reversible sabotage of something that a layer depends on."""
