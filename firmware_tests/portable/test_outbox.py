"""outbox: a bounded ring whose oldest frame gives way."""

from tinyldp_device.outbox import Outbox


def filled(size, frames):
    box = Outbox([bytearray(1) for _ in range(size)])
    for i in range(frames):
        box.add()[0] = i
    return box


def held(box):
    return [box.slot(number)[0] for number in range(box.lowest, box.next)]


def test_frames_are_numbered_and_held():
    box = filled(4, 3)
    assert (box.lowest, box.next, box.unsent, box.drops) == (0, 3, 0, 0)
    assert held(box) == [0, 1, 2]


def test_the_oldest_gives_way():
    for size in (1, 2, 3, 255):
        for frames in (size, size + 1, 3 * size + 1):
            box = filled(size, 0)
            for i in range(frames):
                box.add()[0] = i & 255
            assert held(box) == [i & 255 for i in range(frames - size, frames)]
            assert box.drops == frames - size
            assert box.lowest == box.unsent == frames - size


def test_acknowledged_frames_are_freed():
    box = filled(4, 4)
    box.unsent = 4
    box.free(2)
    assert held(box) == [2, 3]
    box.add()[0] = 4
    box.add()[0] = 5
    assert held(box) == [2, 3, 4, 5]
    assert box.drops == 0


def test_what_was_never_made_or_is_gone_frees_nothing():
    box = filled(4, 3)
    for number in (0, 4, 100, 0x3FFFFFFF):
        box.free(number)
        assert held(box) == [0, 1, 2]
    box.free(3)
    assert held(box) == []
    box.free(1)
    assert (box.lowest, box.next) == (3, 3)


def test_freeing_moves_the_unsent_along_but_never_back():
    box = filled(4, 4)
    box.unsent = 3
    box.free(2)
    assert box.unsent == 3
    box.free(4)
    assert box.unsent == 4


def test_resending_starts_at_the_lowest():
    box = filled(4, 4)
    box.unsent = 4
    box.free(1)
    box.resend()
    assert box.unsent == 1
