"""A name server that serves the zones in the database of Designate: ``fake_name_server.py PORT DATABASE``.

It accepts every NOTIFY and answers queries for the SOA of a zone. It does not know zones that are to be deleted.
"""

import socketserver
import sys

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import dns.rrset
import sqlalchemy

SERIAL = sqlalchemy.text("SELECT serial FROM zones WHERE name = :name AND deleted = '0' AND action != 'DELETE'")


class Question(socketserver.BaseRequestHandler):
    """Return the answer to one datagram."""

    def handle(self):
        data, wire = self.request
        asked = dns.message.from_wire(data)
        answer = dns.message.make_response(asked)
        answer.flags |= dns.flags.AA
        if asked.opcode() != dns.opcode.NOTIFY:
            name = asked.question[0].name
            with self.server.database.connect() as database:
                serial = database.execute(SERIAL, {"name": name.to_text()}).scalar()
            if serial is None or asked.question[0].rdtype != dns.rdatatype.SOA:
                answer.set_rcode(dns.rcode.REFUSED)
            else:
                text = f"ns1.cloud.example. hostmaster.cloud.example. {serial} 3600 600 86400 3600"
                answer.answer.append(dns.rrset.from_text(name, 3600, "IN", "SOA", text))
        wire.sendto(answer.to_wire(), self.client_address)


class Server(socketserver.ThreadingUDPServer):
    """Answer each query in a thread, because the database may be slow."""

    daemon_threads = True
    allow_reuse_address = True


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Question) as server:
        server.database = sqlalchemy.create_engine(sys.argv[2], isolation_level="READ COMMITTED")
        server.serve_forever()
