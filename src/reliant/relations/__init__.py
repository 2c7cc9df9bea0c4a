"""Relations that can be relied on (Sec. 3.3, 3.4, 3.5.3): features in, neighbours, groups, subsets and triplets out.

One file a stage, NumPy in and NumPy out. Nothing here touches the disk or needs torch; memory stays linear in the images.
"""
