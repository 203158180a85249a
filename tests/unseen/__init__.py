"""Generated tables unlike the demonstration, released as a newcomer would, and attacked from outside."""
