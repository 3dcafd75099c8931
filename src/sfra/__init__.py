"""Source-free relearning audit: does an unlearned image classifier still hold the class it forgot?"""
