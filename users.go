package broker

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/leasemq/broker/core/auth"
)

// users are those of a file, read again on demand.
type users struct {
	file    string
	current atomic.Pointer[auth.Users]
}

func openUsers(file string) (*users, error) {
	u := &users{file: file}
	return u, u.reload()
}

// reload reads the file again. After an error nothing has changed.
func (u *users) reload() error {
	f, err := os.Open(u.file)
	if err != nil {
		return fmt.Errorf("users: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("users: %s is not a file", u.file)
	}
	list, err := auth.ParseUsers(f) // which bounds lines and users
	if err != nil {
		return fmt.Errorf("users: %s: %w", u.file, err)
	}
	u.current.Store(list)
	return nil
}

func (u *users) verify(name, password string) bool { return u.current.Load().Verify(name, password) }

// readUser reads the name and the password in a file, which are separated by a colon.
func readUser(path string) (name, password string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	name, password, ok := strings.Cut(strings.TrimSpace(string(b)), ":")
	if !ok || name == "" {
		return "", "", fmt.Errorf("%s is not USER:PASSWORD", path)
	}
	return name, password, nil
}
