"""A session with the server by libpq, for measurements that a client of pgbench cannot make: two sessions in turn. Standard library only."""
import ctypes

from sql_clients import BenchError

CONNECTION_OK = 0
COMMAND_OK, TUPLES_OK = 1, 2


def library():
    found = ctypes.CDLL("libpq.so.5")
    for name in ("PQconnectdb", "PQexec", "PQprepare", "PQexecPrepared"):
        getattr(found, name).restype = ctypes.c_void_p
    for name in ("PQerrorMessage", "PQresultErrorMessage", "PQgetvalue"):
        getattr(found, name).restype = ctypes.c_char_p
    for name, types in (("PQstatus", "p"), ("PQfinish", "p"), ("PQerrorMessage", "p"), ("PQexec", "ps"), ("PQprepare", "pssip"),
                        ("PQexecPrepared", "psipppi"), ("PQresultStatus", "p"), ("PQresultErrorMessage", "p"), ("PQntuples", "p"),
                        ("PQgetvalue", "pii"), ("PQclear", "p"), ("PQconnectdb", "s")):
        getattr(found, name).argtypes = [{"p": ctypes.c_void_p, "s": ctypes.c_char_p, "i": ctypes.c_int}[one] for one in types]
    return found


class Session:
    """A connection; the server and the user are those of PGHOST and so on. settings: GUCs."""

    def __init__(self, database, **settings):
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self.pq = library()
        self.conn = self.pq.PQconnectdb(f"dbname='{database}' options='{options}'".encode())
        if self.pq.PQstatus(self.conn) != CONNECTION_OK:
            raise BenchError(self.pq.PQerrorMessage(self.conn).decode().strip())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pq.PQfinish(self.conn)

    def finish(self, result):
        """The first value of a result, which is freed; None if it has no rows."""
        status, value = self.pq.PQresultStatus(result), None
        message = self.pq.PQresultErrorMessage(result).decode().strip()
        if status == TUPLES_OK and self.pq.PQntuples(result) > 0:
            value = self.pq.PQgetvalue(result, 0, 0).decode()
        self.pq.PQclear(result)
        if status not in (COMMAND_OK, TUPLES_OK):
            raise BenchError(message)
        return value

    def execute(self, sql):
        return self.finish(self.pq.PQexec(self.conn, sql.encode()))

    def prepare(self, name, sql):
        self.finish(self.pq.PQprepare(self.conn, name.encode(), sql.encode(), 0, None))

    def run(self, name):
        """Runs a prepared statement without parameters."""
        return self.finish(self.pq.PQexecPrepared(self.conn, name.encode(), 0, None, None, None, 0))
