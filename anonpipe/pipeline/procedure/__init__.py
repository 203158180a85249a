"""The steps and the decoder that a job asks for, by groups or by a mask."""
