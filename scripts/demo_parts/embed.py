#!/usr/bin/env python3
"""Embeds the descriptions of Debian packages: TF-IDF, truncated SVD, unit length. Reads `apt-cache dumpavail` from stdin.

usage: embed.py OUT_FOLDER [--dims N] NAME=TEXT…

Writes OUT_FOLDER/packages.tsv for COPY (name, section, installed size in kB, description, embedding or \\N) and
OUT_FOLDER/queries.tsv (name, text, embedding): each free TEXT, embedded by the same model.
"""
import argparse
import pathlib
import re
import sys
import time

import numpy
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

# Debian's hand-made tags (use::editing, works-with::image) add facts that a one-line description omits.
TAGS = re.compile(r"(?:admin|devel|field|filetransfer|game|hardware|junior|mail|network|office|protocol|science|security"
                  r"|sound|use|web|works-with)::[\w:-]+")
# The dimensions are learned from programs only: two thirds of the packages are libraries, which would dominate.
LIBRARY_SECTIONS = re.compile(r"(?:\w+/)?(?:lib|rust|perl|haskell|ruby|python|java|golang|debug|doc|oldlibs|php|gnu-r|lisp"
                              r"|ocaml|kernel|localization|introspection|metapackages|fonts)")
COMPANION = re.compile(r"-(?:data|doc|dev|common|dbg)$")


def read_packages(stream):
    """(name, section, size_kb, description, words to embed) of each package, the first version of each name."""
    packages = {}
    fields, last = {}, None

    def finish():
        name, description = fields.get("Package"), fields.get("Description", fields.get("Description-en", ""))
        if name and description and name not in packages:
            title, _, body = description.partition("\n")
            tags = " ".join(TAGS.findall(fields.get("Tag", "")))
            packages[name] = (name, fields.get("Section", "unknown"), int(fields.get("Installed-Size", "0") or 0),
                              title, f"{title} {title} {body} {tags} {name}")

    for line in stream:
        line = line.rstrip("\n")
        if not line:
            finish()
            fields, last = {}, None
        elif line[0] in " \t":
            if last in ("Description", "Description-en", "Tag"):
                fields[last] += "\n" + line.strip()
        else:
            last, _, value = line.partition(":")
            fields[last] = value.strip()
    finish()
    return [packages[name] for name in sorted(packages)]


def step(message, started):
    print(f"   {message} ({time.monotonic() - started:.0f} s)", flush=True)


def literal(vector):
    return "[" + ",".join(f"{x:.6g}" for x in vector) + "]"


def copy_escape(text):
    return text.replace("\\", "\\\\").replace("\t", " ").replace("\n", " ")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--dims", type=int, default=128)
    parser.add_argument("queries", nargs="*", metavar="NAME=TEXT")
    args = parser.parse_args()
    started = time.monotonic()

    packages = read_packages(open(sys.stdin.fileno(), encoding="utf-8", errors="replace"))
    if len(packages) < 1000:
        sys.exit(f"embed.py: only {len(packages)} packages in the package index (run apt-get update)")
    step(f"{len(packages)} packages read", started)

    tfidf = TfidfVectorizer(sublinear_tf=True, min_df=3, max_df=0.1, stop_words="english",
                            token_pattern=r"[a-z-]+::[\w:-]+|[A-Za-z][A-Za-z+#]+|[0-9]+d\b")
    words = tfidf.fit_transform(package[4] for package in packages)
    step(f"TF-IDF: {words.shape[1]} distinct words, {words.nnz} entries", started)

    svd = TruncatedSVD(n_components=args.dims, algorithm="randomized", n_iter=3, random_state=7)
    programs = [i for i, (name, section, *_) in enumerate(packages)
                if not LIBRARY_SECTIONS.match(section) and not COMPANION.search(name)]
    svd.fit(words[programs])

    def embed(rows):
        # Dividing by the singular values lets the fine differences count as much as the coarse ones.
        return normalize(svd.transform(rows) / svd.singular_values_).astype(numpy.float32)

    vectors = embed(words)
    step(f"SVD of {len(programs)} programs: {args.dims} dimensions", started)

    with open(args.out / "packages.tsv", "w", encoding="utf-8") as file:
        for (name, section, size_kb, title, _), vector in zip(packages, vectors):
            # A description with unknown words only has no direction: NULL.
            value = literal(vector) if numpy.any(vector) else "\\N"
            file.write(f"{name}\t{copy_escape(section)}\t{size_kb}\t{copy_escape(title)}\t{value}\n")
    with open(args.out / "queries.tsv", "w", encoding="utf-8") as file:
        for query in args.queries:
            name, _, text = query.partition("=")
            vector = embed(tfidf.transform([text]))[0]
            if not numpy.any(vector):
                sys.exit(f"embed.py: no word of \"{text}\" occurs in the descriptions")
            file.write(f"{name}\t{copy_escape(text)}\t{literal(vector)}\n")
    step("files for COPY written", started)


if __name__ == "__main__":
    main()
