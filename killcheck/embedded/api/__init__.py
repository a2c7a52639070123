"""The API server of the embedded cluster, without IO: `Request -> Response`. No controller lives here."""
