"""Other libraries that train on microcontrollers, beside ours: the same network and step on the same emulator."""
