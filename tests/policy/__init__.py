"""The policy pack through its own process, spoken to as the engine does."""
