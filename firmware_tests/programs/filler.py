"""A source of words for a small heap."""


class Filler:
    quality = 1
    state = 1

    def fill(self, buf):
        state = self.state
        for i in range(len(buf)):
            state = (state * 61 + 7919) & 0xFFFFFF
            buf[i] = state >> 16
        self.state = state
