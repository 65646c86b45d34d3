package awake

var holder = []string{"caffeinate", "-i"}
