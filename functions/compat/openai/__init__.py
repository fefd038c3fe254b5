"""The speech API of OpenAI."""
