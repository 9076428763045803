#!/usr/bin/env python3
"""Reads batches, sealed snapshots, pages, answers and footprints and prints each as a line of JSON.

Written from Documentation/format.md alone, with the standard library and the `zstd` command line tool, to show that
the document is enough. Verifies checksums, digests and footprints on the way.

    decode_batch.py [--key FILE --space NAME] FILE...
"""

import base64
import hashlib
import hmac
import json
import os
import struct
import subprocess
import sys
import uuid

MAXIMUM_PLAIN = 64 << 20
MAXIMUM_PARTS = 65536
MAXIMUM_BODY = 4 << 30
MAXIMUM_COLUMNS = 32_767
MASK = (1 << 64) - 1


class FormatError(Exception):
    pass


def check(condition, what):
    if not condition:
        raise FormatError(what)


# --- Numbers, strings and lists -------------------------------------------------------------------------------------


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, count):
        check(count <= len(self.data) - self.at, "truncated")
        part = self.data[self.at : self.at + count]
        self.at += count
        return part

    def u8(self):
        return self.take(1)[0]

    def u64(self):
        return int.from_bytes(self.take(8), "little")

    def varint(self):
        number, shift = 0, 0
        while True:
            byte = self.u8()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                check(byte != 0 or shift == 0, "number not in its shortest form")
                check(number <= MASK, "number too large")
                return number
            shift += 7
            check(shift < 70, "number too long")

    def zigzag(self):
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def bytes(self):
        return self.take(self.varint())

    def string(self):
        try:
            return self.bytes().decode("utf-8")
        except UnicodeDecodeError:
            raise FormatError("string is not UTF-8")

    def list(self, read, at_most=None):
        count = self.varint()
        check(count <= len(self.data) - self.at, "truncated")
        check(at_most is None or count <= at_most, "list too long")
        return [read() for _ in range(count)]

    def id(self):
        return str(uuid.UUID(bytes=self.take(16)))

    def digest(self):
        return self.take(32)

    def position(self):
        number = self.varint()
        check(number <= 1 << 62, "position too large")
        return number

    def milliseconds(self):
        number = self.zigzag()
        check(-(1 << 62) <= number <= 1 << 62, "time too far away")
        return number

    def time(self):
        milliseconds, counter = self.milliseconds(), self.varint()
        check(counter < 1 << 32, "counter of a time")
        return {"milliseconds": str(milliseconds), "counter": str(counter)}

    def flags(self, allowed):
        flags = self.u8()
        check(flags & ~allowed == 0, "flags")
        return flags

    def bool(self):
        return self.flags(1) == 1

    def end(self):
        check(self.at == len(self.data), "bytes left over")

    # --- Values -----------------------------------------------------------------------------------------------------

    def value(self):
        tag = self.u8()
        if tag >= 0x80:
            return {"integer": str(tag - 144)}
        if tag >= 0x40:
            return {"text": self.take(tag - 0x40).hex()}
        if tag >= 0x20:
            return {"blob": self.take(tag - 0x20).hex()}
        if tag == 0:
            return None
        if tag == 1:
            integer = self.zigzag()
            check(not -16 <= integer <= 111, "integer not in its shortest form")
            return {"integer": str(integer)}
        if tag == 2:
            bits = self.u64()
            is_nan = bits >> 52 & 0x7FF == 0x7FF and bits & ((1 << 52) - 1) != 0
            check(not is_nan and bits != 1 << 63, "real")
            return {"real": f"{bits:016x}"}
        if tag == 3:
            text = self.bytes()
            check(len(text) >= 64, "text not in its shortest form")
            return {"text": text.hex()}
        check(tag == 4, "value")
        blob = self.bytes()
        check(len(blob) >= 32, "blob not in its shortest form")
        return {"blob": blob.hex()}

    def values(self):
        return self.list(self.value, MAXIMUM_COLUMNS)

    # --- Footprints -------------------------------------------------------------------------------------------------

    def footprint(self):
        rules, key_id, everything = self.varint(), self.varint(), self.bool()
        check(rules <= 0xFFFF, "rules")
        groups = self.list(self.group)
        check(ascends([int(group["table"], 16) for group in groups]), "groups in disorder")
        check(not (everything and groups), "everything and groups")
        return {"rules": rules, "keyID": str(key_id), "everything": everything, "groups": groups}

    def group(self):
        table, flags = self.u64(), self.flags(3)
        writes, reads = self.list(self.u64), self.list(self.u64)
        check(ascends(writes) and ascends(reads), "hashes in disorder")
        check(not (flags & 1 and writes) and not (flags & 2 and reads), "hashes beside a whole table")
        check(flags or writes or reads, "empty group")
        return {
            "table": hexadecimal(table),
            "writesWhole": bool(flags & 1),
            "readsWhole": bool(flags & 2),
            "writes": [hexadecimal(hash) for hash in writes],
            "reads": [hexadecimal(hash) for hash in reads],
        }

    # --- Transactions -----------------------------------------------------------------------------------------------

    def info(self):
        id, time, origin, flags = self.id(), self.time(), self.u8(), self.flags(7)
        check(origin <= 3, "origin")
        author = self.string() if flags & 1 else None
        context = self.string() if flags & 2 else None
        replica = self.string() if flags & 4 else None
        return {"id": id, "time": time, "origin": origin, "author": author, "replicaName": replica, "contextName": context}

    def body_head(self):
        info, tables = self.info(), self.list(self.varint)
        check(ascends(tables), "tables in disorder")
        return info, tables

    def body(self):
        info, tables = self.body_head()
        sections, journal, schema, policies, resolutions = [], [], None, [], []
        tag = self.u8()
        if tag == 7:
            total, offset, piece = self.varint(), self.varint(), self.bytes()
            check(piece and offset + len(piece) <= total <= MAXIMUM_BODY, "piece")
            check(self.u8() == 0, "section")
            self.end()
            return {"info": info, "tables": tables, "total": str(total), "offset": str(offset), "piece": piece.hex()}
        ages = []
        if tag == 9:
            for count, age in self.list(lambda: (self.varint(), self.varint())):
                check(count > 0, "age")
                ages += [age] * count
            check(ages, "no age")
            tag = self.u8()
        ages = iter(ages)
        while tag == 1:
            table = self.varint()
            check(table in tables, "table is not listed")
            changes = []
            code = self.u8()
            while code != 0:
                changes.append(dict(self.change(code), age=str(next(ages, 0))))
                code = self.u8()
            sections.append({"table": table, "changes": changes})
            tag = self.u8()
        if tag == 2:
            journal = self.list(self.journal_entry)
            check(journal, "empty journal")
            tag = self.u8()
        if tag == 3:
            schema = self.schema_entry()
            tag = self.u8()
        if tag == 4:
            policies = self.list(self.policy_setting)
            check(policies, "no policy")
            tag = self.u8()
        if tag == 5:
            resolutions = self.list(self.resolution)
            check(resolutions, "no resolution")
            tag = self.u8()
        references = []
        if tag == 8:
            references = self.list(self.reference_setting)
            check(references, "no reference")
            tag = self.u8()
        voids = []
        if tag == 6:
            voids = self.list(lambda: {"position": str(self.position()), "digest": self.digest().hex()})
            check(voids, "no void")
            tag = self.u8()
        check(tag == 0, "section")
        self.end()
        body = {
            "info": info,
            "tables": tables,
            "sections": sections,
            "journal": journal,
            "schema": schema,
            "policies": policies,
            "resolutions": resolutions,
        }
        if references:
            body["references"] = references
        return dict(body, voids=voids) if voids else body

    def change(self, code):
        if code == 0x01:
            return {"insert": self.values(), "mark": None}
        if code == 0x31:
            position, changed = self.position(), self.column_changes(self.varint())
            mark = {"revived": str(position), "changed": changed}
            return {"insert": self.values(), "mark": mark}
        if code == 0x02:
            keys, columns = self.varint(), self.varint()
            check(keys <= MAXIMUM_COLUMNS, "key")
            key = [self.value() for _ in range(keys)]
            return {"update": key, "columns": self.column_changes(columns), "mark": None}
        if code == 0x03:
            return {"delete": self.values(), "mark": None}
        if code == 0x13:
            key = self.values()
            return {"delete": self.values(), "mark": {"merged": key}}
        check(code == 0x23, "change")
        return {"delete": self.values(), "mark": "setAside"}

    def column_changes(self, count):
        check(count <= MAXIMUM_COLUMNS, "columns")
        changes = []
        for _ in range(count):
            changes.append({"column": self.varint(), "old": self.value(), "new": self.value()})
        check(ascends([change["column"] for change in changes]), "columns in disorder")
        return changes

    def journal_entry(self):
        kind, flags = self.u8(), self.flags(0xFF)
        check(kind <= 7, "kind of journal entry")
        table, key, columns, policy = self.string(), self.values(), self.list(self.string), self.string()
        return {
            "kind": kind,
            "table": table,
            "key": key,
            "columns": columns,
            "policy": policy,
            "base": self.values() if flags & 1 else None,
            "stored": self.values() if flags & 2 else None,
            "incoming": self.values() if flags & 4 else None,
            "replica": self.id() if flags & 8 else None,
            "time": self.time() if flags & 16 else None,
            "position": str(self.position()) if flags & 32 else None,
            "incomingWon": bool(flags & 64),
            "incomingTime": self.time() if flags & 128 else None,
        }

    def schema_entry(self):
        version, breaking = self.varint(), self.bool()
        check(version < 1 << 63, "schema version")
        statements, tracked = self.list(self.string), self.list(self.layout)
        return {"version": str(version), "breaking": breaking, "statements": statements, "tracked": tracked}

    def policy_setting(self):
        aspect, flags = self.u8(), self.flags(3)
        check(aspect <= 4, "aspect")
        check(not flags & 2 or (flags & 1 and aspect == 0), "column of no table")
        table = self.string() if flags & 1 else None
        column = self.string() if flags & 2 else None
        return {"aspect": aspect, "table": table, "column": column, "policy": self.string()}

    def reference_setting(self):
        table, columns, decision = self.string(), self.list(self.string), self.u8()
        check(1 <= len(columns) <= 16 and decision <= 3, "reference")
        setting = {"table": table, "columns": columns, "decision": decision}
        if decision >= 2:
            setting["parent"], setting["parentColumns"] = self.string(), self.list(self.string)
            setting["onDelete"] = self.u8()
            check(len(setting["parentColumns"]) == len(columns) and setting["onDelete"] <= 3, "parent")
        if decision == 3:
            setting["condition"] = self.string()
        return setting

    def resolution(self):
        replica, transaction, index, choice = self.id(), self.id(), self.varint(), self.u8()
        check(choice <= 2, "choice")
        return {"replica": replica, "transaction": transaction, "index": index, "choice": choice}

    def layout(self):
        name = self.string()
        columns = self.list(self.string, MAXIMUM_COLUMNS)
        key = self.list(self.varint, MAXIMUM_COLUMNS)
        check(all(place < len(columns) for place in key) and len(set(key)) == len(key), "key")
        return {"name": name, "columns": columns, "key": key}


def ascends(numbers):
    return all(left < right for left, right in zip(numbers, numbers[1:]))


def hexadecimal(number):
    return f"{number:016x}"


def sha256(data):
    return hashlib.sha256(data).digest()


def u64_bytes(number):
    return number.to_bytes(8, "little")


# --- Hashes ---------------------------------------------------------------------------------------------------------


def siphash(key, data):
    """SipHash-2-4 with 64 bits of output; the key as two little-endian halves."""
    v = [key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D, key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573]

    def rotate(number, count):
        return (number << count | number >> (64 - count)) & MASK

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = rotate(v[1], 13) ^ v[0]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 0xFF])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def varint_bytes(number):
    parts = []
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(parts + [number])


def fold(name):
    return bytes(byte | 0x20 if 0x41 <= byte <= 0x5A else byte for byte in name.encode("utf-8"))


def name_bytes(name):
    return varint_bytes(len(fold(name))) + fold(name)


def tuple_bytes(columns, values=()):
    """A list of column names that ascends, then the values in the same order."""
    order = sorted(range(len(columns)), key=lambda place: fold(columns[place]))
    names = b"".join(name_bytes(columns[place]) for place in order)
    return varint_bytes(len(columns)) + names + b"".join(value_bytes(values[place]) for place in order if values)


def value_bytes(value):
    """A value as it is hashed: affinity and collation are the caller's, whole reals become integers here."""
    if value is None:
        return b"\x00"
    if "real" in value:
        bits = int(value["real"], 16)
        real = struct.unpack("<d", u64_bytes(bits))[0]
        if real not in (float("inf"), float("-inf")) and real == int(real) and -(2**63) <= int(real) < 2**63:
            return value_bytes({"integer": int(real)})
        return b"\x02" + u64_bytes(bits)
    if "integer" in value:
        integer = int(value["integer"])
        if -16 <= integer <= 111:
            return bytes([integer + 144])
        return b"\x01" + varint_bytes((integer << 1 if integer >= 0 else (-integer << 1) - 1) & MASK)
    if "text" in value:
        text = bytes.fromhex(value["text"])
        return (bytes([0x40 + len(text)]) if len(text) < 64 else b"\x03" + varint_bytes(len(text))) + text
    blob = bytes.fromhex(value["blob"])
    return (bytes([0x20 + len(blob)]) if len(blob) < 32 else b"\x04" + varint_bytes(len(blob))) + blob


def footprint_hash(kind, key=(0, 0), table="", columns=(), values=(), id=""):
    if kind == "table":
        data = b"\x01" + name_bytes(table)
    elif kind == "row":
        data = b"\x02" + name_bytes(table) + b"".join(value_bytes(value) for value in values)
    elif kind == "tuple":
        data = b"\x03" + name_bytes(table) + tuple_bytes(columns, values)
    elif kind == "index":
        data = b"\x04" + name_bytes(table) + tuple_bytes(columns)
    elif kind == "transaction":
        data = b"\x05" + uuid.UUID(id).bytes
    elif kind == "conflict":
        replica, transaction, index = id.split()
        data = b"\x07" + uuid.UUID(replica).bytes + uuid.UUID(transaction).bytes + varint_bytes(int(index))
    else:
        data = {"transactionGroup": b"\x05", "schema": b"\x06", "conflictGroup": b"\x07"}[kind]
    return hexadecimal(siphash(key, data))


def decode_hash_cases(cases):
    computed = []
    for case in cases["cases"]:
        key = tuple(int(half, 16) for half in case["key"])
        result = footprint_hash(case["kind"], key, case["table"], case["columns"], case["values"], case["id"])
        computed.append(dict(case, hash=result))
    return {"cases": computed}


def written_hashes(transaction, layouts, hash_key):
    """Those hashes with their groups. An update's new key and the tuples of other indexes are not looked at."""
    found = [(footprint_hash("transactionGroup", hash_key), footprint_hash("transaction", hash_key, id=transaction["info"]["id"]))]
    for section in transaction["sections"]:
        layout = layouts[str(section["table"])]
        group = footprint_hash("table", hash_key, table=layout["name"])
        names = [layout["columns"][place] for place in layout["key"]]
        for change in section["changes"]:
            row = change.get("insert") or change.get("delete")
            key = change["update"] if row is None else [row[place] for place in layout["key"]]
            found.append((group, footprint_hash("row", hash_key, table=layout["name"], values=key)))
            if row is not None:
                found.append((group, footprint_hash("tuple", hash_key, table=layout["name"], columns=names, values=key)))
    return found


# --- Sealing --------------------------------------------------------------------------------------------------------


def hkdf(key, salt, info, length):
    """HKDF-SHA256 (RFC 5869)."""
    mac = lambda key, data: hmac.new(key, data, hashlib.sha256).digest()
    extracted, block, output = mac(salt or bytes(32), key), b"", b""
    for number in range(1, length // 32 + 2):
        block = mac(extracted, block + info + bytes([number]))
        output += block
    return output[:length]


def chacha_block(key, counter, nonce):
    state = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce))
    x = state[:]

    def quarter(a, b, c, d):
        for into, other, turned, count in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[into] = (x[into] + x[other]) & 0xFFFFFFFF
            mixed = x[turned] ^ x[into]
            x[turned] = (mixed << count | mixed >> (32 - count)) & 0xFFFFFFFF

    for _ in range(10):
        for a, b, c, d in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)):
            quarter(a, b, c, d)
        for a, b, c, d in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            quarter(a, b, c, d)
    return struct.pack("<16I", *((word + before) & 0xFFFFFFFF for word, before in zip(x, state)))


def poly1305(key, data):
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for start in range(0, len(data), 16):
        total = (total + int.from_bytes(data[start : start + 16] + b"\x01", "little")) * r % ((1 << 130) - 5)
    return ((total + int.from_bytes(key[16:], "little")) & (1 << 128) - 1).to_bytes(16, "little")


def chacha20_poly1305_open(key, nonce, sealed, associated=b""):
    """RFC 8439, section 2.8."""
    check(len(sealed) >= 16, "truncated")
    ciphertext, tag = sealed[:-16], sealed[-16:]
    padded = lambda data: data + bytes(-len(data) % 16)
    lengths = u64_bytes(len(associated)) + u64_bytes(len(ciphertext))
    expected = poly1305(chacha_block(key, 0, nonce)[:32], padded(associated) + padded(ciphertext) + lengths)
    check(hmac.compare_digest(expected, tag), "seal")
    plain = bytearray()
    for number, start in enumerate(range(0, len(ciphertext), 64)):
        stream = chacha_block(key, number + 1, nonce)
        plain += bytes(left ^ right for left, right in zip(ciphertext[start : start + 64], stream))
    return bytes(plain)


class Keys:
    """What is derived from one key of a key file for one space."""

    def __init__(self, secret, space):
        derived = lambda purpose, length=32: hkdf(secret, b"", b"annals 1 " + purpose + b"\0" + space.encode(), length)
        self.id = int.from_bytes(hkdf(secret, b"", b"annals 1 id", 8), "little") or 1
        self.authentication = derived(b"authentication")
        self.message = derived(b"message")
        self.snapshot = derived(b"snapshot")
        self.digest = derived(b"digest")
        footprint = derived(b"footprint", 16)
        self.footprint = (int.from_bytes(footprint[:8], "little"), int.from_bytes(footprint[8:], "little"))

    def open(self, stored, clear):
        check(len(stored) >= 48, "truncated")
        authenticator, sealed = stored[:32], stored[32:]
        key = hkdf(self.message, authenticator, b"annals 1 message", 32)
        payload = chacha20_poly1305_open(key, bytes(12), sealed, clear)
        expected = hmac.new(self.authentication, u64_bytes(len(clear)) + clear + payload, hashlib.sha256).digest()
        check(hmac.compare_digest(expected, authenticator), "seal")
        return payload


RING = {}


def read_key_file(path, space):
    with open(path, encoding="ascii") as file:
        for line in map(str.strip, file):
            if line and not line.startswith("#"):
                kind, _, secret = line.partition(":")
                check(kind == "annals-key-1", "key file")
                keys = Keys(base64.b64decode(secret, validate=True), space)
                RING[keys.id] = keys


def keys_of(key_id):
    check(key_id in RING, "missing key")
    return RING[key_id]


def decode_snapshot(data):
    reader = Reader(data)
    check(reader.take(4) == b"ANNS", "magic")
    check(reader.u8() == 1, "version")
    key_id, lineage, position, log_digest, salt = reader.u64(), reader.id(), reader.u64(), reader.digest(), reader.take(32)
    key = hkdf(keys_of(key_id).snapshot, salt, data[: reader.at], 32)
    pieces, plain = data[reader.at :], b""
    count = max(1, -(-len(pieces) // 65552))
    for number in range(count):
        nonce = u64_bytes(number) + bytes([0, 0, 0, number == count - 1])
        plain += chacha20_poly1305_open(key, nonce, pieces[number * 65552 : (number + 1) * 65552])
    return {
        "kind": "snapshot",
        "keyID": str(key_id),
        "lineage": lineage,
        "position": str(position),
        "logDigest": log_digest.hex(),
        "bytes": len(plain),
        "sha256": sha256(plain).hex(),
    }


# --- Signatures -----------------------------------------------------------------------------------------------------

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
CURVE_D = -121665 * pow(121666, -1, PRIME) % PRIME
ROOT = pow(2, (PRIME - 1) // 4, PRIME)


def point_add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % PRIME, (p[1] + p[0]) * (q[1] + q[0]) % PRIME
    c, d = 2 * p[3] * q[3] * CURVE_D % PRIME, 2 * p[2] * q[2] % PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def point_times(factor, point):
    result = (0, 1, 1, 0)
    while factor > 0:
        if factor & 1:
            result = point_add(result, point)
        point, factor = point_add(point, point), factor >> 1
    return result


def read_point(data):
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & (1 << 255) - 1
    check(y < PRIME, "signature")
    square = (y * y - 1) * pow(CURVE_D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if x * x % PRIME != square:
        x = x * ROOT % PRIME
    check(x * x % PRIME == square and (x != 0 or sign == 0), "signature")
    if x & 1 != sign:
        x = PRIME - x
    return x, y, 1, x * y % PRIME


BASE = read_point((4 * pow(5, -1, PRIME) % PRIME).to_bytes(32, "little"))


def check_ed25519(public_key, message, signature):
    commitment, scalar = read_point(signature[:32]), int.from_bytes(signature[32:], "little")
    check(scalar < ORDER, "signature")
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % ORDER
    left, right = point_times(scalar, BASE), point_add(commitment, point_times(challenge, read_point(public_key)))
    same = (left[0] * right[2] - right[0] * left[2]) % PRIME == 0 and (left[1] * right[2] - right[1] * left[2]) % PRIME == 0
    check(same, "signature")


def replica_of(public_key):
    if public_key == bytes(32):
        return str(uuid.UUID(int=1))
    name = bytearray(sha256(b"annals replica" + public_key)[:16])
    name[6], name[8] = name[6] & 0x0F | 0x80, name[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(name)))


def check_signature(public_key, clear, signature):
    if public_key == bytes(32):
        return check(signature == bytes(64), "signature")
    # The byte of the codec counts as zero, since voiding changes it.
    check_ed25519(public_key, b"annals batch" + sha256(clear[:5] + b"\0" + clear[6:]), signature)


def read_seen(reader):
    position, digest = reader.position(), reader.digest()
    check(position > 0 or digest == bytes(32), "seen")
    known = position == 0 or digest != bytes(32)
    return {"position": str(position), "digest": digest.hex() if known else None}


# --- Batches --------------------------------------------------------------------------------------------------------


def unpack(stored, plain_length):
    """One zstd frame, never more than was announced."""
    process = subprocess.Popen(["zstd", "-d", "-c", "-q", "--memory=8MB"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    plain, _ = process.communicate(stored)
    check(process.returncode == 0 and len(plain) == plain_length, "compressed bytes")
    return plain


def decode_batch(data, check_footprints):
    reader = Reader(data)
    check(reader.take(4) == b"ANNB", "magic")
    check(reader.u8() == 2, "version")
    check(len(data) >= 13 and data[-8:] == sha256(data[:-8])[:8], "checksum")
    reader.data = data[:-8]
    codec = reader.u8()
    check(codec <= 2, "codec")
    key_id, lineage, public_key = reader.u64(), reader.id(), reader.take(32)
    replica = replica_of(public_key)
    first_counter, schema_version = reader.position(), reader.varint()
    part, count = [reader.varint(), reader.varint()], reader.varint()
    check(first_counter > 0 and 0 < count <= len(data) and schema_version < 1 << 63 and part[0] < part[1] <= MAXIMUM_PARTS, "head")
    check(part[1] == 1 or count == 1, "a part with others")
    seen = read_seen(reader)
    previous = reader.digest()
    certificates = [(reader.position(), reader.digest(), reader.bytes(), reader.varint()) for _ in range(count)]
    plain_length = reader.varint()
    clear = data[: reader.at]
    check_signature(public_key, clear, reader.take(64))
    stored = reader.bytes()
    reader.end()
    check(all(certificate[0] <= int(seen["position"]) for certificate in certificates), "a base that was not seen")
    start = plain_length - sum(certificate[3] for certificate in certificates)
    check(0 <= start and plain_length <= MAXIMUM_PLAIN, "payload")
    if codec == 2:
        check(stored == b"", "payload of a voided batch")
        left = [{"base": str(base), "digest": digest.hex(), "footprint": read_whole_footprint(footprint)}
                for base, digest, footprint, _ in certificates]
        return {
            "kind": "batch",
            "codec": "voided",
            "keyID": str(key_id),
            "lineage": lineage,
            "replica": replica,
            "seen": seen,
            "firstCounter": str(first_counter),
            "schemaVersion": str(schema_version),
            "part": part,
            "previousDigest": previous.hex(),
            "certificates": left,
        }
    secret = b""
    if key_id != 0:
        stored, secret = keys_of(key_id).open(stored, clear), keys_of(key_id).digest
    plain = stored if codec == 0 else unpack(stored, plain_length)
    check(len(plain) == plain_length, "payload")
    dictionary, entry_digests = read_dictionary(plain[:start])

    transactions, before = [], previous
    for index, (base, digest, footprint, length) in enumerate(certificates):
        body, start = plain[start : start + length], start + length
        _, tables = Reader(body).body_head()
        check(all(table in entry_digests for table in tables), "table without a layout")
        covered = secret + before + uuid.UUID(replica).bytes + u64_bytes(first_counter + index) + u64_bytes(base)
        covered += u64_bytes(schema_version) + u64_bytes(len(footprint)) + footprint
        if part[1] == 1:
            covered += u64_bytes(len(tables))
        else:
            covered += u64_bytes(len(tables) | 1 << 63) + u64_bytes(part[0]) + u64_bytes(part[1])
        covered += b"".join(entry_digests[table] for table in tables) + body
        check(sha256(covered) == digest, "digest")
        before = digest
        transaction = Reader(body).body()
        check("piece" not in transaction or part[1] > 1, "a piece that is no part")
        transaction.update(base=str(base), digest=digest.hex(), footprint=read_whole_footprint(footprint))
        if check_footprints:
            check_writes(transaction, dictionary, RING[key_id].footprint if key_id else (0, 0))
        transactions.append(transaction)
    return {
        "kind": "batch",
        "codec": ["plain", "zstd"][codec],
        "keyID": str(key_id),
        "lineage": lineage,
        "replica": replica,
        "seen": seen,
        "firstCounter": str(first_counter),
        "schemaVersion": str(schema_version),
        "part": part,
        "previousDigest": previous.hex(),
        "dictionary": dictionary,
        "transactions": transactions,
    }


def read_dictionary(data):
    """The layouts by number, and the digest of each entry."""
    reader = Reader(data)
    layouts, digests, last = {}, {}, -1
    for _ in range(reader.varint()):
        start = reader.at
        number = reader.varint()
        check(number > last, "dictionary in disorder")
        last = number
        layouts[str(number)] = reader.layout()
        digests[number] = sha256(data[start : reader.at])
    reader.end()
    return layouts, digests


def read_whole_footprint(data):
    reader = Reader(data)
    footprint = reader.footprint()
    reader.end()
    return footprint


def check_writes(transaction, layouts, hash_key):
    """The footprint's writes must hold the transaction's id, each row, and each primary key that was taken or given up."""
    groups = {group["table"]: group["writes"] for group in transaction["footprint"]["groups"]}
    for group, hash in written_hashes(transaction, layouts, hash_key):
        check(hash in groups.get(group, []), "footprint too small")


# --- Pages and answers ----------------------------------------------------------------------------------------------


def read_page(reader):
    start = reader.at
    check(reader.take(4) == b"ANNP", "magic")
    check(reader.u8() == 1, "version")
    lineage, head, horizon, after = reader.id(), reader.position(), reader.position(), reader.position()
    is_last = reader.bool()
    frames = reader.list(lambda: read_frame(reader))
    check_sum = sha256(reader.data[start : reader.at])[:8]
    check(reader.take(8) == check_sum, "checksum")
    following = after + 1
    for index, frame in enumerate(frames):
        first, last = frame["first"], frame["first"] + frame["acceptedCount"] - 1
        check(first == following or (index == 0 and first <= following <= last), "frames with a gap")
        check(last <= head, "frame beyond the head")
        following = last + 1
        frame["first"] = str(first)
        frame["batch"] = reader.take(frame["batch"]).hex()
    return {
        "kind": "page",
        "lineage": lineage,
        "head": str(head),
        "horizon": str(horizon),
        "after": str(after),
        "isLast": is_last,
        "frames": frames,
    }


def read_frame(reader):
    first, index, count = reader.position(), reader.varint(), reader.varint()
    received, length = reader.milliseconds(), reader.varint()
    check(first >= 1 and count >= 1, "frame")
    return {"first": first, "firstIndex": index, "acceptedCount": count, "receivedAt": str(received), "batch": length}


def read_answer(reader):
    check(reader.take(4) == b"ANNA", "magic")
    check(reader.u8() == 2, "version")
    push = {"replica": reader.id(), "firstCounter": str(reader.position()), "lastDigest": reader.digest().hex()}
    code = reader.u8()
    check(code <= 6, "outcome")
    outcome = {"name": ["accepted", "stale", "identityConflict", "gap", "logRolledBack", "wait", "partsMissing"][code]}
    if code == 1:
        at = reader.position()
        outcome["at"] = str(at) if at > 0 else None
    if code == 5:
        outcome["milliseconds"] = reader.varint()
    lineage, head, received = reader.id(), reader.position(), reader.milliseconds()
    positions, last = [], 0
    for step in reader.list(reader.varint):
        check(step >= 1, "positions in disorder")
        last += step
        positions.append(str(last))
    has_page = reader.bool()
    check_sum = sha256(reader.data[: reader.at])[:8]
    check(reader.take(8) == check_sum, "checksum")
    return {
        "kind": "answer",
        "outcome": outcome,
        "push": push,
        "lineage": lineage,
        "head": str(head),
        "receivedAt": str(received),
        "positions": positions,
        "page": read_page(reader) if has_page else None,
    }


def decode(path):
    name = os.path.basename(path)
    with open(path, "rb") as file:
        data = file.read()
    if name.endswith(".json"):
        return decode_hash_cases(json.loads(data))
    if name.startswith("footprint-"):
        return {"kind": "footprint", "footprint": read_whole_footprint(data)}
    if data[:4] == b"ANNB":
        # Only these fixtures' footprints are those of their changes; the others show every form.
        return decode_batch(data, check_footprints=name.startswith(("batch-hashed", "batch-sealed")))
    if data[:4] == b"ANNS":
        return decode_snapshot(data)
    reader = Reader(data)
    result = read_page(reader) if data[:4] == b"ANNP" else read_answer(reader)
    reader.end()
    return result


def main():
    paths = sys.argv[1:]
    if paths[:1] == ["--key"]:
        read_key_file(paths[1], paths[3])
        paths = paths[4:]
    for path in paths:
        try:
            result = decode(path)
        except FormatError as error:
            result = {"error": str(error)}
        print(json.dumps(result, sort_keys=True))


if __name__ == "__main__":
    main()
