"""Clients of embedding services: vectors from texts, for loads, mutations, `nearest` and files of records."""

from omnigraph_sql.embeddings.client import Client, Embedder
from omnigraph_sql.embeddings.filling import check_model, computed_properties, embed_for, fill, outdated_by
from omnigraph_sql.embeddings.handle import Embeddings
from omnigraph_sql.embeddings.providers import Role
from omnigraph_sql.embeddings.settings import Settings, is_configured, is_enabled, resolve
from omnigraph_sql.embeddings.vectors import UnusableVector, normalised

__all__ = [
    "Client",
    "Embedder",
    "Embeddings",
    "Role",
    "Settings",
    "UnusableVector",
    "check_model",
    "computed_properties",
    "embed_for",
    "fill",
    "is_configured",
    "is_enabled",
    "normalised",
    "outdated_by",
    "resolve",
]
