package awake

// A closed lid and a shutdown stay the user's own.
var holder = []string{"systemd-inhibit", "--what=idle:sleep", "--who=descartes", "--why=agents are at work", "--mode=block"}
