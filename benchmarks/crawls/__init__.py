"""Real crawls of minutes, ours beside its peers, against limiters as they are found in the wild."""
