"""Clients of embedding services, for loads, mutations, `nearest` and files of records."""

from omnigraph_sql.embeddings.client import Client, Embedder
from omnigraph_sql.embeddings.fill import check_model, computed_properties, embed_for, fill, outdated_by
from omnigraph_sql.embeddings.handle import Embeddings
from omnigraph_sql.embeddings.providers import Role
from omnigraph_sql.embeddings.settings import EmbeddingSettings, is_configured, is_enabled, resolve
from omnigraph_sql.embeddings.vectors import UnusableVector, normalised

__all__ = [
    "Client",
    "Embedder",
    "EmbeddingSettings",
    "Embeddings",
    "Role",
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
