"""A wire that something can be done to: passes bytes between clients and a server."""

import select
import socket
import threading


class Tap:
    """Listens on `port` for the server at `server_port` until it is closed.

    `when_sent(text, action)` calls action() once, before the bytes of a request that have `text` in
    them are passed on. The caller's text should be short and at a request's beginning: a request
    that comes in several pieces is looked at piece by piece.
    """

    def __init__(self, server_port):
        self._server_port = server_port
        self._trigger = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def when_sent(self, text, action):
        self._trigger = text, action

    def close(self):
        # Only a shutdown wakes the thread that is in accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, socket.create_connection(("127.0.0.1", self._server_port)) as server:
            try:
                while self._pass_on(client, server):
                    pass
            except OSError:
                pass  # an end was closed hard; closing both tells the other

    def _pass_on(self, client, server):
        """Waits for bytes and passes them on; false at either side's end."""
        for source in select.select((client, server), (), ())[0]:
            data = source.recv(65536)
            if not data:
                return False
            if source is client:
                self._look(data)
            (server if source is client else client).sendall(data)
        return True

    def _look(self, data):
        trigger = self._trigger
        if trigger and trigger[0] in data:
            self._trigger = None
            trigger[1]()
