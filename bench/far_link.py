"""A link over a distance: a network namespace at its far end, behind a delay and a rate.

Two TUN devices, one in this namespace and one in the far one, and a thread that carries packets between
them: each waits for the packets before it to be sent at the rate, and then half a round trip. Nothing is
lost and the queue has no end. TCP is the kernels' own, at both ends, with its handshakes and its slow
start. (A kernel with netem could do the same; not every one has it.) Needs root, /dev/net/tun and `ip`.

Packets of up to 64 KiB pass whole, as network cards take them (TSO); at the rate they count as the
segments that they stand for.
"""

import collections
import fcntl
import os
import re
import select
import struct
import subprocess
import threading
import time

NEAR, FAR = "10.213.7.1", "10.213.7.2"
MTU = 1500
# From linux/if_tun.h and linux/virtio_net.h.
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4 = 0x01, 0x02
VNET_HEADER = struct.Struct("<BBHHHH")  # flags, gso type, header bytes, segment bytes, checksum's place
READ_BYTES = VNET_HEADER.size + 65536
REQUEST = re.compile(rb"(?:GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n")
RANGE = re.compile(rb"\r\nrange: (\S+)", re.IGNORECASE)


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, stdout=subprocess.DEVNULL)


def open_tun(name):
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    return tun


def wire_bytes(packet):
    """What the packet, without its VNET_HEADER, has as the segments that it stands for."""
    _, kind, header_bytes, segment_bytes, _, _ = VNET_HEADER.unpack_from(packet)
    size = len(packet) - VNET_HEADER.size
    if kind == 0 or segment_bytes == 0:
        return size
    segments = -(-(size - header_bytes) // segment_bytes)
    return size + (segments - 1) * header_bytes


def payload_of(packet):
    """The bytes that an IPv4 TCP packet carries."""
    ip_at = VNET_HEADER.size
    tcp_at = ip_at + (packet[ip_at] & 15) * 4
    if packet[ip_at] >> 4 != 4 or packet[ip_at + 9] != 6 or len(packet) < tcp_at + 20:
        return b""
    return packet[tcp_at + (packet[tcp_at + 12] >> 4) * 4:]


class Way:
    """One direction: packets with the instants at which they are through."""

    def __init__(self, source, target, link):
        self.source, self.target, self.link = source, target, link
        self.queue = collections.deque()
        self.sent_at = 0.0  # of the last packet, at the rate

    def take(self, now):
        while True:
            try:
                packet = os.read(self.source, READ_BYTES)
            except BlockingIOError:
                return
            self.sent_at = max(self.sent_at, now) + wire_bytes(packet) / self.link.bytes_per_s
            self.queue.append((self.sent_at + self.link.round_trip_s / 2, packet))
            self.link.note(self, now, packet)

    def deliver(self, now):
        while self.queue and self.queue[0][0] <= now:
            _, packet = self.queue.popleft()
            os.write(self.target, packet)
            self.link.note_delivery(self, now, packet)


class FarLink:
    """The link, from entering it until it is left. Rate and round trip may be changed at any time."""

    def __init__(self, round_trip_s, bytes_per_s):
        self.round_trip_s, self.bytes_per_s = round_trip_s, bytes_per_s
        self.namespace = f"isthmus-far-{os.getpid()}"
        self.names = f"isn{os.getpid()}", f"isf{os.getpid()}"
        self.requests = []
        self.last_byte_at = 0.0
        self.stopping = threading.Event()

    def __enter__(self):
        ip("netns", "add", self.namespace)
        try:
            near, far = self.tuns = [open_tun(name) for name in self.names]
            self.configure()
        except BaseException:
            ip("netns", "del", self.namespace)
            raise
        self.ways = [Way(near, far, self), Way(far, near, self)]
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        for tun in self.tuns:
            os.close(tun)
        ip("netns", "del", self.namespace)

    def configure(self):
        near, far = self.names
        inside = ("-n", self.namespace)
        ip("link", "set", far, "netns", self.namespace)
        ip("addr", "add", NEAR, "peer", FAR, "dev", near)
        ip(*inside, "addr", "add", FAR, "peer", NEAR, "dev", far)
        ip(*inside, "link", "set", "lo", "up")
        ip("link", "set", near, "mtu", str(MTU), "txqueuelen", "10000", "up")
        ip(*inside, "link", "set", far, "mtu", str(MTU), "txqueuelen", "10000", "up")

    def command(self, *command):
        """The command, run at the far end."""
        return ["ip", "netns", "exec", self.namespace, *command]

    def carry(self):
        while not self.stopping.is_set():
            due = min((way.queue[0][0] for way in self.ways if way.queue), default=None)
            wait = 0.1 if due is None else max(0.0, due - time.monotonic())
            ready, _, _ = select.select([way.source for way in self.ways], [], [], min(wait, 0.1))
            for way in self.ways:
                if way.source in ready:
                    way.take(time.monotonic())
                way.deliver(time.monotonic())

    def note(self, way, now, packet):
        if way is not self.ways[0]:
            return
        payload = payload_of(packet)
        if match := REQUEST.match(payload):
            span = RANGE.search(payload)
            line = match[0].decode("latin1").rsplit(" ", 1)[0]
            self.requests.append((now, line + (f" {span[1].decode()}" if span else "")))

    def note_delivery(self, way, now, packet):
        if way is self.ways[1] and payload_of(packet):
            self.last_byte_at = now

    def take_requests(self):
        """[(seconds since the first, "METHOD TARGET [RANGE]")] since the last call, and the seconds until
        the last byte of an answer arrived."""
        found, self.requests = self.requests, []
        begun = found[0][0] if found else 0.0
        return [(at - begun, line) for at, line in found], self.last_byte_at - begun
