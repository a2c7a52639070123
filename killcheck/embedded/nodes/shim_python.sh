#!@BASH@ -p
# In a container: python, with the cluster's clock  and the packages that the image is known to have.
exec '@REAL@' "$@"
