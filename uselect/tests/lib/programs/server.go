// SPDX-License-Identifier: GPL-2.0
// server PORT: GET /N answers with N bytes, GET /child with what a child prints.
package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"strconv"
)

func main() {
	http.HandleFunc("/child", func(w http.ResponseWriter, r *http.Request) {
		out, err := exec.Command("echo", "child").Output()
		if err != nil {
			out = []byte(err.Error())
		}
		w.Write(out)
	})
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Path[1:])
		w.Header().Set("Content-Length", strconv.Itoa(n))
		w.Write(bytes.Repeat([]byte("x"), n))
	})
	if err := http.ListenAndServe("127.0.0.1:"+os.Args[1], nil); err != nil {
		panic(err)
	}
}
