package proc

import "os"

func orchestrate(args []string) int { return 0 }

func carriers(cookie string) (list []int) {
	mark := append([]byte(CookieVar+"="+cookie), 0)
	for _, p := range processes() {
		if p != os.Getpid() && carries(p, mark) && !isShim(p) {
			list = append(list, p)
		}
	}
	return list
}
