package files

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
)

// side is the width and height of the picture, in pixels.
const side = 160

// pictures are one picture in several formats, by the endings of their names:
// soft shapes with the noise that a camera has.
func pictures(random *rand.Rand) map[string][]byte {
	picture := image.NewRGBA(image.Rect(0, 0, side, side))
	wave := func() func(x, y float64) float64 {
		across, down, phase := random.Float64()*0.1, random.Float64()*0.1, random.Float64()*6
		return func(x, y float64) float64 { return 90 * math.Sin(across*x+down*y+phase) }
	}
	waves := [3]func(x, y float64) float64{wave(), wave(), wave()}
	for y := range side {
		for x := range side {
			var rgb [3]uint8
			for i, wave := range waves {
				rgb[i] = uint8(128 + wave(float64(x), float64(y)) + 6*random.NormFloat64())
			}
			picture.Set(x, y, color.RGBA{rgb[0], rgb[1], rgb[2], 255})
		}
	}
	encoded := map[string][]byte{}
	for ending, write := range map[string]func(*bytes.Buffer) error{
		".png": func(into *bytes.Buffer) error { return png.Encode(into, picture) },
		".jpg": func(into *bytes.Buffer) error { return jpeg.Encode(into, picture, nil) },
		".gif": func(into *bytes.Buffer) error { return gif.Encode(into, picture, nil) },
	} {
		var into bytes.Buffer
		if err := write(&into); err != nil {
			panic(fmt.Sprintf("files: a picture cannot be written as %s: %v", ending, err))
		}
		encoded[ending] = into.Bytes()
	}
	// An icon says that its pixels have alpha: PNG keeps that where one of them is not opaque.
	picture.Set(0, 0, color.RGBA{})
	var into bytes.Buffer
	if err := png.Encode(&into, picture); err != nil {
		panic(fmt.Sprintf("files: a picture cannot be written for an icon: %v", err))
	}
	encoded[".ico"] = icon(into.Bytes(), side)
	return encoded
}
