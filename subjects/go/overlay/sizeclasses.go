package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// table is the standard library's file, below GOROOT/src.
const table = "internal/runtime/gc/sizeclasses.go"

// classesMin is as many as runtime.MemStats reports by size.
const classesMin = 61

// Sizes above this are rounded up by steps of so much, as the table has them.
const (
	smallSizeMax = 1024
	largeSizeDiv = 128
)

// smallObjects is Go's allocator with another end of its table.
type smallObjects struct{ limit int }

func (s smallObjects) write(into string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", filepath.FromSlash(table))
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	cut, err := cutOff(string(text), s.limit)
	if err != nil {
		return "", fmt.Errorf("%s: %w", original, err)
	}
	replacement := filepath.Join(into, filepath.Base(original))
	if err := os.WriteFile(replacement, []byte(cut), 0o644); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: replacement}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(into, "overlay.json")
	return "-overlay=" + list, os.WriteFile(list, overlay, 0o644)
}

// cutOff leaves only the size classes up to a limit in the text of the table.
func cutOff(text string, limit int) (string, error) {
	sizes, err := array(text, "SizeClassToSize")
	if err != nil {
		return "", err
	}
	last := slices.Index(sizes, strconv.Itoa(limit))
	if last+1 < classesMin || limit <= smallSizeMax || limit%largeSizeDiv != 0 {
		return "", fmt.Errorf("%d is no size class that the table can end with; there are %s",
			limit, strings.Join(sizes[classesMin-1:], ", "))
	}
	keep := map[string]int{
		"SizeClassToSize":     last + 1,
		"SizeClassToNPages":   last + 1,
		"SizeClassToDivMagic": last + 1,
		"SizeToSizeClass128":  (limit-smallSizeMax)/largeSizeDiv + 1,
	}
	for name, count := range keep {
		values, err := array(text, name)
		if err != nil {
			return "", err
		}
		if len(values) < count {
			return "", fmt.Errorf("%s has %d values, not %d", name, len(values), count)
		}
		old := "{" + strings.Join(values, ", ") + "}"
		text = strings.Replace(text, old, "{"+strings.Join(values[:count], ", ")+"}", 1)
	}
	for name, value := range map[string]int{"MaxSmallSize": limit, "NumSizeClasses": last + 1} {
		constant := regexp.MustCompile(`(?m)^(\s` + name + `\s*= )\d+$`)
		if !constant.MatchString(text) {
			return "", errors.New("there is no constant " + name)
		}
		text = constant.ReplaceAllString(text, "${1}"+strconv.Itoa(value))
	}
	return text, nil
}

// array gives the values of one of the table's arrays, as they are written.
func array(text, name string) ([]string, error) {
	found := regexp.MustCompile(`(?m)^var ` + name + ` = \[[^\]]*\]\w+\{(.*)\}$`).FindStringSubmatch(text)
	if found == nil {
		return nil, errors.New("there is no array " + name)
	}
	return strings.Split(found[1], ", "), nil
}
